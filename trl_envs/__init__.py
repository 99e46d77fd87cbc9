"""trl-env: train language-model agents with TRL's GRPOTrainer on OpenEnv environments."""

__version__ = "0.1.0"
