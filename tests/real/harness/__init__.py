"""Parts of the tests: processes to start and stop, and clients of each protocol."""
