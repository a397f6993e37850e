// A fake container runtime for a real kubelet: the fake of k8s.io/cri-client in its own process, so that its containers
// keep running while the kubelet restarts.
//
//	fakeruntime SOCKET NOT-READY
//
// It listens on the Unix socket SOCKET, and reports that it is not ready while a file NOT-READY exists, like a runtime
// that is still starting. It runs until it is killed.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/fake"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fakeruntime:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: fakeruntime SOCKET NOT-READY")
	}
	socket, notReady := args[0], args[1]
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	served := runtime{newFake(filepath.Dir(socket)), notReady}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, served)
	runtimeapi.RegisterImageServiceServer(server, served)
	return server.Serve(listener)
}

func newFake(dir string) *fake.RemoteRuntime {
	remote := fake.NewFakeRemoteRuntime()
	// Without this the kubelet assumes systemd as the cgroup driver.
	remote.RuntimeService.FakeLinuxConfiguration = &runtimeapi.LinuxRuntimeConfiguration{
		CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS,
	}
	// The kubelet's statistics fail without an image file system.
	usage := []*runtimeapi.FilesystemUsage{{
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: dir},
		UsedBytes:  &runtimeapi.UInt64Value{Value: 1 << 20},
		InodesUsed: &runtimeapi.UInt64Value{Value: 1},
	}}
	remote.ImageService.SetFakeFilesystemUsage(usage)
	// Kubelets of earlier versions reject an image without a size.
	remote.ImageService.SetFakeImageSize(1)
	remote.ImageService.SetFakeContainerFilesystemUsage(usage)
	return remote
}

// runtime is the fake with its own status.
type runtime struct {
	*fake.RemoteRuntime
	notReady string
}

func (r runtime) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	_, err := os.Stat(r.notReady)
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: errors.Is(err, os.ErrNotExist)},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}}, nil
}
