from trajmill.app.cli.cli import main

main()
