"""How findings look to a person."""
