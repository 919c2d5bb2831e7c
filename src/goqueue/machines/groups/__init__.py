"""The state machine of consumer groups: classic groups, groups whose broker assigns, and share groups."""
