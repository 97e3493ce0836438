"""Operations of the gateway without HTTP types, which REST, console, sockets and jobs request of the engine."""
