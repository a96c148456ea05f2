"""What a machine runs that launches a template: the command of that name, with the words that it is given."""

import sys

from trajmill.app.cli.cli import main

if __name__ == "__main__":
    sys.argv[1:1] = ["template", "launch"]
    main()
