"""Pure state machines: they decide and apply, and know neither clock nor chance, disk nor network."""
