"""Write the rows of a pipeline to files, Delta tables and topics."""
