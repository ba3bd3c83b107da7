"""`vitro torture`: drawn configurations on machines that go wrong."""
