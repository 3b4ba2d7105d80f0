"""A program that asks one question, as a test or a user starts it."""

import sys

import desk

if __name__ == "__main__":
    print(desk.ask(sys.argv[1] if len(sys.argv) > 1 else "What can you do?"))
