"""What is to be forgotten, where it is said, and what that will cost."""
