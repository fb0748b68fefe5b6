"""The use cases of Everindex, shared by routes and commands. No use case knows HTTP."""
