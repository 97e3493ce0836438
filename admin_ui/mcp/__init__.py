"""The endpoint for assistants: the console's reading calls as tools of the Model Context Protocol."""
