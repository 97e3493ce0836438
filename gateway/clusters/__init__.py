"""The clusters that this process serves, and everything that it holds for each."""
