"""Messages as commands publish, receive and print them."""
