"""HTTP as such: who may ask, how much at once, and how an error is answered."""
