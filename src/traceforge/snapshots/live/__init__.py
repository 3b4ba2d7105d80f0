"""The live check: sends approved requests to the provider again, and compares the answers."""
