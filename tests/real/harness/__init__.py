"""What the tests are made of: processes that are started and stopped, and clients of each protocol."""
