"""The modules of scripts/corpus; only the standard library is needed.

  options      the command line                 commands   run, status, cancel
  inputs       which slides a user names        device     GPUs and --device
  dicom        which files are one slide        checks     damage and hashes of finished files
  state        the folder OUT                   files      what all of them use
  logs         what tasks reported              status     what has become of each slide
  schedulers   Slurm and Grid Engine            cluster    what is submitted
  steps        look-up and merge                local      a run on this machine
  progress     progress lines                   names      what slides are called in the corpus
  report       the page about all slides
"""
