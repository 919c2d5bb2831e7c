"""Consumer groups: members, offsets, polls, and what is known of a group."""
