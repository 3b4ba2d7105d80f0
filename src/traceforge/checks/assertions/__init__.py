"""What an assertion means: an answer in, whether it holds and why out."""
