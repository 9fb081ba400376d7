// A VM, from its creation to its end, by kubevirt.io/client-go, unmodified, as a controller of somebody else uses it. One
// line for each step that did what it should; the first that did not ends the program with the code 1.
//
//	client-go NAMESPACE PORT <VM.yaml
//
// Something in the guest says HTTP on that port. The guest says `login:` on its serial console.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubecli"
	kvcorev1 "kubevirt.io/client-go/kubevirt/typed/core/v1"
	"sigs.k8s.io/yaml"
)

// Longer than all of it takes, by far.
const patience = 10 * time.Minute

func main() {
	flags := pflag.NewFlagSet("client-go", pflag.ExitOnError)
	config := kubecli.DefaultClientConfig(flags)
	_ = flags.Parse(os.Args[1:])
	if flags.NArg() != 2 {
		fail("usage: client-go NAMESPACE PORT <VM.yaml")
	}
	port, err := strconv.Atoi(flags.Arg(1))
	check("the port is a number", err)
	client, err := kubecli.GetKubevirtClientFromClientConfig(config)
	check("a kubeconfig", err)
	manifest, err := io.ReadAll(os.Stdin)
	check("the manifest", err)
	vm := &v1.VirtualMachine{}
	check("the manifest is a VM", yaml.UnmarshalStrict(manifest, vm))

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := &story{ctx: ctx, client: client, namespace: flags.Arg(0), name: vm.Name}
	s.version()
	s.create(vm)
	s.watches()
	s.update()
	s.start()
	s.console()
	s.screen()
	s.forwards(port)
	s.pause()
	s.agent()
	s.stop()
	s.delete()
}

// A VM, and who drives it.
type story struct {
	ctx             context.Context
	client          kubecli.KubevirtClient
	namespace, name string
	seen            *seen
}

func (s *story) vms() kubecli.VirtualMachineInterface {
	return s.client.VirtualMachine(s.namespace)
}

func (s *story) vmis() kubecli.VirtualMachineInstanceInterface {
	return s.client.VirtualMachineInstance(s.namespace)
}

func (s *story) version() {
	info, err := s.client.ServerVersion().Get()
	check("the server's version", err)
	if info.GitVersion == "" {
		fail("the server has no version: %+v", info)
	}
	say("version: the server tells its own")
}

func (s *story) create(vm *v1.VirtualMachine) {
	made, err := s.vms().Create(s.ctx, vm, metav1.CreateOptions{})
	check("create the VM", err)
	// The names of one VM in the list, and of no VMI.
	vms, err := s.vms().List(s.ctx, metav1.ListOptions{})
	check("list VMs", err)
	vmis, err := s.vmis().List(s.ctx, metav1.ListOptions{})
	check("list VMIs", err)
	if len(vms.Items) != 1 || vms.Items[0].UID != made.UID || len(vmis.Items) != 0 {
		fail("listed %d VMs and %d VMIs, not this VM alone", len(vms.Items), len(vmis.Items))
	}
	say("create: listed 1 VM, 0 VMIs")
}

func (s *story) watches() {
	s.seen = watch(s.ctx, s.client, s.namespace)
	s.until("the VM is stopped", func() bool { return s.seen.status(s.name) == v1.VirtualMachineStatusStopped })
	say("watch: VM Stopped")
}

// What the client has read is written back whole, as controllers do: nothing that it does not know is lost.
func (s *story) update() {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		vm, err := s.vms().Get(s.ctx, s.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		before := vm.DeepCopy()
		vm.Labels = map[string]string{"made-by": "client-go"}
		vm, err = s.vms().Update(s.ctx, vm, metav1.UpdateOptions{})
		if err == nil && (vm.Generation != before.Generation || vm.Labels["made-by"] != "client-go") {
			fail("a label changed the spec: %+v became %+v", before.Spec, vm.Spec)
		}
		return err
	})
	check("update the VM", err)
	say("update: a label, and the spec as it was")
}

func (s *story) start() {
	check("start the VM", s.vms().Start(s.ctx, s.name, &v1.StartOptions{}))
	err := s.vms().Start(s.ctx, s.name, &v1.StartOptions{})
	if !apierrors.IsConflict(err) {
		fail("a second start is no conflict: %v", err)
	}
	s.until("the VM runs", func() bool {
		return s.seen.status(s.name) == v1.VirtualMachineStatusRunning && s.seen.phase(s.name) == v1.Running
	})
	say("start: VM Running, VMI Running; a second start is a conflict")
}

func (s *story) console() {
	options := &kvcorev1.SerialConsoleOptions{ConnectionTimeout: time.Minute}
	stream, err := s.vmis().SerialConsole(s.name, options)
	check("open the console", err)
	read(stream.AsConn(), "login:")
	say("console: login:")
}

func (s *story) screen() {
	stream, err := s.vmis().VNC(s.name, false)
	check("open the screen", err)
	read(stream.AsConn(), "RFB 003.008\n")
	picture, err := s.vmis().Screenshot(s.ctx, s.name, &v1.ScreenshotOptions{})
	check("a picture of the screen", err)
	if !bytes.HasPrefix(picture, []byte("\x89PNG\r\n\x1a\n")) {
		fail("a picture of the screen is no PNG: %q", picture[:min(len(picture), 16)])
	}
	say("vnc: RFB 003.008; a PNG")
}

// The guest may be slower with its network than with its console.
func (s *story) forwards(port int) {
	targets := map[string]func() (kvcorev1.StreamInterface, error){
		"VM":  func() (kvcorev1.StreamInterface, error) { return s.vms().PortForward(s.name, port, "tcp") },
		"VMI": func() (kvcorev1.StreamInterface, error) { return s.vmis().PortForward(s.name, port, "tcp") },
	}
	for _, kind := range []string{"VM", "VMI"} {
		last := "nothing was asked"
		s.until("an answer by "+kind, func() bool {
			stream, err := targets[kind]()
			if err != nil {
				last = err.Error()
				return false
			}
			last = ask(stream.AsConn())
			return strings.Contains(last, "200 OK")
		}, &last)
	}
	say("port-forward: 200 OK by VM and VMI")
}

func (s *story) pause() {
	check("pause the VMI", s.vmis().Pause(s.ctx, s.name, &v1.PauseOptions{}))
	s.until("the VMI is paused", func() bool { return s.seen.has(s.name, v1.VirtualMachineInstancePaused) })
	check("unpause the VMI", s.vmis().Unpause(s.ctx, s.name, &v1.UnpauseOptions{}))
	s.until("the VMI goes on", func() bool { return !s.seen.has(s.name, v1.VirtualMachineInstancePaused) })
	say("pause: Paused, and no more")
}

// A guest without an agent, and a VMI that there is not.
func (s *story) agent() {
	_, err := s.vmis().GuestOsInfo(s.ctx, s.name)
	if err == nil || !strings.Contains(err.Error(), "guest agent") {
		fail("without a guest agent there is an answer: %v", err)
	}
	_, err = s.vmis().Get(s.ctx, "nothing", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		fail("a VMI that there is not: %v", err)
	}
	say("errors: no guest agent; not found")
}

func (s *story) stop() {
	check("stop the VM", s.vms().Stop(s.ctx, s.name, &v1.StopOptions{}))
	s.until("the VM is stopped", func() bool {
		return s.seen.status(s.name) == v1.VirtualMachineStatusStopped && s.seen.phase(s.name) == ""
	})
	say("stop: VM Stopped, no VMI")
}

func (s *story) delete() {
	check("delete the VM", s.vms().Delete(s.ctx, s.name, metav1.DeleteOptions{}))
	s.until("the VM is gone", func() bool { return s.seen.status(s.name) == "" })
	say("delete: no VM")
}

// Waits until it is so. What was last is told when it never is.
func (s *story) until(what string, so func() bool, last ...*string) {
	for !so() {
		select {
		case <-s.ctx.Done():
			for _, text := range last {
				what += ", and last came " + *text
			}
			fail("not within %s: %s; seen: %s", patience, what, s.seen)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Reads until this comes.
func read(conn net.Conn, wanted string) {
	defer conn.Close()
	check("a time for "+wanted, conn.SetReadDeadline(time.Now().Add(patience)))
	var got []byte
	piece := make([]byte, 4096)
	for !bytes.Contains(got, []byte(wanted)) {
		count, err := conn.Read(piece)
		got = append(got, piece[:count]...)
		if err != nil && !bytes.Contains(got, []byte(wanted)) {
			fail("%q did not come: %v after %q", wanted, err, got)
		}
	}
}

// What a web server answers, or why it does not.
func ask(conn net.Conn) string {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err.Error()
	}
	if _, err := conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")); err != nil {
		return err.Error()
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return fmt.Sprintf("%s (%v)", answer, err)
	}
	return string(answer)
}

func check(what string, err error) {
	if err != nil {
		fail("%s: %v", what, err)
	}
}

func say(line string) { fmt.Println(line) }

func fail(form string, args ...any) {
	fmt.Fprintf(os.Stderr, "client-go: "+form+"\n", args...)
	os.Exit(1)
}
