// The kubelet's sample device plugin, with devices that can change while it runs.
//
//	deviceplugin RESOURCE DEVICES
//
// It registers RESOURCE, such as example.com/dongle, with the kubelet of this machine. The file DEVICES contains the
// number of devices, and how many of them are unhealthy. On SIGHUP the plugin reads the file again. It does not
// register again when the kubelet restarts, and runs until it is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "deviceplugin:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: deviceplugin RESOURCE DEVICES")
	}
	resource, file := args[0], args[1]
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGHUP)

	devices, err := readDevices(file)
	if err != nil {
		return err
	}
	socket := filepath.Join(api.DevicePluginPath, strings.ReplaceAll(resource, "/", "-")+".sock")
	plugin := v1beta1.NewDevicePluginStub(klog.Background(), devices, socket, resource, false, false)
	ctx := context.Background()
	if err := plugin.Start(ctx); err != nil {
		return err
	}
	if err := plugin.Register(ctx, api.KubeletSocket, resource, ""); err != nil {
		return err
	}
	for range changed {
		if devices, err = readDevices(file); err != nil {
			return err
		}
		plugin.Update(devices)
	}
	return nil
}

func readDevices(file string) ([]*api.Device, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var count, unhealthy int
	if _, err := fmt.Sscan(string(text), &count, &unhealthy); err != nil {
		return nil, fmt.Errorf("%s needs two numbers, of devices and of unhealthy ones: %w", file, err)
	}
	devices := make([]*api.Device, count)
	for i := range devices {
		devices[i] = &api.Device{ID: fmt.Sprintf("device-%d", i), Health: api.Healthy}
		if i < unhealthy {
			devices[i].Health = api.Unhealthy
		}
	}
	return devices, nil
}
