"""python3 -m wsi_store"""
from .command import main

main()
