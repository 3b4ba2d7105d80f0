"""Shared by the tests: sample data, servers, clients and programs that tests start. Holds no tests."""
