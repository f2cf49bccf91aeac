"""The modules of scripts/corpus."""
