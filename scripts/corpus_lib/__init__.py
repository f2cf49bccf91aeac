"""The modules of scripts/corpus; only the standard library is needed.

  options      the command line                 commands   run, status, cancel, remove
  inputs       which slides a user names        device     GPUs and --device
  dicom        which files are one slide        checks     damage and hashes of finished files
  state        the folder OUT                   records    what is known of each slide
  attempts     what tasks reported              states     what has become of each slide
  status       what `status` reports            files      what all of them use
  schedulers   Slurm and Grid Engine            cluster    what is submitted
  again        trying slides again              remove     taking slides out
  steps        look-up and merge                local      a run on this machine
  stage        copies on a node's own disk      merged     which slides are merged together
  progress     progress lines                   names      what slides are called in the corpus
  report       the page about all slides
"""
