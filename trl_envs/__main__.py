"""`python -m trl_envs`, the same as `trl-env`."""

from trl_envs.cli.app import main

if __name__ == "__main__":
    main()
