"""python -m memreel: the program memreel."""
from .launch import main

main()
