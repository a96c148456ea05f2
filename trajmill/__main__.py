import sys

if not sys.flags.safe_path:
    del sys.path[0]  # the working folder, whose files are the user's

from trajmill.app.cli.cli import main

main()
