from pipelines.face.cli import main

main()
