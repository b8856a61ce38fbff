"""The first step of training: a run that is ready to train, in a new folder or a resumed one."""
