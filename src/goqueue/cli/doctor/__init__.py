"""`goqueue doctor`."""
