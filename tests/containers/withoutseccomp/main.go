// Runs runc without the container's seccomp profile, for a machine without libseccomp's headers. runc is then built
// without seccomp support, and would reject a container with a profile.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "withoutseccomp:", err)
		os.Exit(1)
	}
}

func run() error {
	if flag := slices.Index(os.Args, "--bundle"); slices.Contains(os.Args, "create") && flag >= 0 && flag+1 < len(os.Args) {
		if err := removeProfile(filepath.Join(os.Args[flag+1], "config.json")); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runc := filepath.Join(filepath.Dir(self), "runc")
	return syscall.Exec(runc, append([]string{runc}, os.Args[1:]...), os.Environ())
}

// removeProfile removes the seccomp profile from a container's configuration, and nothing else.
func removeProfile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config, linux map[string]json.RawMessage
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := json.Unmarshal(config["linux"], &linux); err != nil {
		return fmt.Errorf("%s: linux: %w", path, err)
	}
	delete(linux, "seccomp")
	if config["linux"], err = json.Marshal(linux); err != nil {
		return err
	}
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
