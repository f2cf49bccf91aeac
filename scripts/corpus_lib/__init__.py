"""The modules of scripts/corpus; only the standard library is needed.

  options   the command line                    commands  plan, run, status, cancel
  inputs    which slides a user names
  state     the folder OUT                      planned   what remains: plan.tsv
  step      what an engine runs                 outcome   what has become of each slide
  finish    merged results, report, retries     status    what is printed
  engines   Slurm, Grid Engine, this machine    remove    taking slides out
  files     what all of them use
"""
