"""What can be asked of Everindex, for the routes and the commands alike. No use case knows HTTP."""
