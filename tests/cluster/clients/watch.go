package main

import (
	"context"
	"fmt"

	k8s "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	v1 "kubevirt.io/api/core/v1"
	"kubevirt.io/client-go/kubecli"
)

// The VMs and VMIs of a namespace, as informers have them: they list, watch, and do so again when a watch ends.
type seen struct {
	namespace string
	vms, vmis cache.Store
}

func watch(ctx context.Context, client kubecli.KubevirtClient, namespace string) *seen {
	vms, vmis := client.VirtualMachine(namespace), client.VirtualMachineInstance(namespace)
	ofVMs := inform(ctx, &v1.VirtualMachine{}, &cache.ListWatch{
		ListFunc:  func(o metav1.ListOptions) (runtime.Object, error) { return vms.List(ctx, o) },
		WatchFunc: func(o metav1.ListOptions) (apiwatch.Interface, error) { return vms.Watch(ctx, o) },
	})
	ofVMIs := inform(ctx, &v1.VirtualMachineInstance{}, &cache.ListWatch{
		ListFunc:  func(o metav1.ListOptions) (runtime.Object, error) { return vmis.List(ctx, o) },
		WatchFunc: func(o metav1.ListOptions) (apiwatch.Interface, error) { return vmis.Watch(ctx, o) },
	})
	if !cache.WaitForCacheSync(ctx.Done(), ofVMs.HasSynced, ofVMIs.HasSynced) {
		fail("VMs and VMIs are not listed within %s", patience)
	}
	return &seen{namespace, ofVMs.GetStore(), ofVMIs.GetStore()}
}

func inform(ctx context.Context, kind runtime.Object, of *cache.ListWatch) cache.SharedInformer {
	informer := cache.NewSharedInformer(of, kind, 0)
	go informer.Run(ctx.Done())
	return informer
}

// The status of a VM as kubectl prints it; empty where there is no VM.
func (s *seen) status(name string) v1.VirtualMachinePrintableStatus {
	if found, ok, _ := s.vms.GetByKey(s.namespace + "/" + name); ok {
		return found.(*v1.VirtualMachine).Status.PrintableStatus
	}
	return ""
}

func (s *seen) vmi(name string) *v1.VirtualMachineInstance {
	if found, ok, _ := s.vmis.GetByKey(s.namespace + "/" + name); ok {
		return found.(*v1.VirtualMachineInstance)
	}
	return nil
}

// The phase of a VMI; empty where there is no VMI.
func (s *seen) phase(name string) v1.VirtualMachineInstancePhase {
	if vmi := s.vmi(name); vmi != nil {
		return vmi.Status.Phase
	}
	return ""
}

// Has this VMI this condition?
func (s *seen) has(name string, kind v1.VirtualMachineInstanceConditionType) bool {
	vmi := s.vmi(name)
	for i := 0; vmi != nil && i < len(vmi.Status.Conditions); i++ {
		if condition := vmi.Status.Conditions[i]; condition.Type == kind {
			return condition.Status == k8s.ConditionTrue
		}
	}
	return false
}

// All of it, for whoever looks at a failure.
func (s *seen) String() string {
	if s == nil {
		return "nothing"
	}
	text := fmt.Sprintf("VMIs %v", s.vmis.ListKeys())
	for _, vm := range s.vms.List() {
		vm := vm.(*v1.VirtualMachine)
		text += fmt.Sprintf(", VM %s %s %+v", vm.Name, vm.Status.PrintableStatus, vm.Status.Conditions)
	}
	return text
}
