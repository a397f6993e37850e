// Package generated writes or checks files that are generated from others.
package generated

import (
	"bytes"
	"fmt"
	"os"
)

// File is a generated file.
type File struct {
	Path string
	Text []byte
	// Source names its source, and Target the make target that generates it.
	Source, Target string
}

// Main writes the file of the folder that the command line names. With --check it fails if the file differs.
func Main(command string, generate func(folder string) (File, error)) {
	if err := run(command, os.Args[1:], generate); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(command string, args []string, generate func(folder string) (File, error)) error {
	check := len(args) > 0 && args[0] == "--check"
	if check {
		args = args[1:]
	}
	if len(args) != 1 {
		return fmt.Errorf("usage: %s [--check] FOLDER", command)
	}
	file, err := generate(args[0])
	if err != nil {
		return err
	}
	before, err := os.ReadFile(file.Path)
	if err == nil && bytes.Equal(before, file.Text) {
		return nil
	}
	if check {
		return fmt.Errorf("%s is not what %s generates: run `make %s`", file.Path, file.Source, file.Target)
	}
	return os.WriteFile(file.Path, file.Text, 0o644)
}
