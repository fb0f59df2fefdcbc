# SPDX-License-Identifier: Apache-2.0
"""python -m memreel: the program memreel."""
from .launch import main

main()
