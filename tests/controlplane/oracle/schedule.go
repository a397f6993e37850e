package main

import (
	"context"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"
)

// filters returns the scheduler's own filters of nodes, in its order, with the feature of its defaults that decides which
// requests count.
func filters(ctx context.Context) ([]fwk.FilterPlugin, error) {
	features := feature.Features{EnablePodLevelResources: true}
	scoring := &config.ScoringStrategy{
		Type:      config.LeastAllocated,
		Resources: []config.ResourceSpec{{Name: "cpu", Weight: 1}},
	}
	factories := []struct {
		new  func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)
		args runtime.Object
	}{
		{nodeunschedulable.New, nil},
		{tainttoleration.New, nil},
		{nodeaffinity.New, &config.NodeAffinityArgs{}},
		{noderesources.NewFit, &config.NodeResourcesFitArgs{ScoringStrategy: scoring}},
	}
	var plugins []fwk.FilterPlugin
	for _, factory := range factories {
		plugin, err := factory.new(ctx, factory.args, nil, features)
		if err != nil {
			return nil, err
		}
		plugins = append(plugins, plugin.(fwk.FilterPlugin))
	}
	return plugins, nil
}

// canSchedule returns why the scheduler's filters reject each node for a pod.
func canSchedule(input string) any {
	fail := func(err error) any { return map[string]string{"error": err.Error()} }
	var question struct {
		Pod   corev1.Pod
		Nodes []corev1.Node
		Pods  []corev1.Pod
	}
	if err := json.Unmarshal([]byte(input), &question); err != nil {
		return fail(err)
	}
	ctx := context.Background()
	plugins, err := filters(ctx)
	if err != nil {
		return fail(err)
	}
	var nodes []fwk.NodeInfo
	for at := range question.Nodes {
		node := &question.Nodes[at]
		var on []*corev1.Pod
		for at := range question.Pods {
			if pod := &question.Pods[at]; pod.Spec.NodeName == node.Name {
				on = append(on, pod)
			}
		}
		info := framework.NewNodeInfo(on...)
		info.SetNode(node)
		nodes = append(nodes, info)
	}

	state, answers := framework.NewCycleState(), map[string]string{}
	for _, plugin := range plugins {
		if prefilter, ok := plugin.(fwk.PreFilterPlugin); ok {
			allowed, status := prefilter.PreFilter(ctx, state, &question.Pod, nodes)
			for _, node := range nodes {
				name := node.Node().Name
				isExcluded := status.IsRejected() || allowed != nil && !allowed.AllNodes() && !allowed.NodeNames.Has(name)
				if answers[name] == "" && isExcluded {
					answers[name] = plugin.Name()
				}
			}
			if status.IsSkip() || status.IsRejected() {
				continue
			}
		}
		for _, node := range nodes {
			name := node.Node().Name
			if status := plugin.Filter(ctx, state, &question.Pod, node); answers[name] == "" && !status.IsSuccess() {
				answers[name] = plugin.Name() + ": " + strings.Join(status.Reasons(), ", ")
			}
		}
	}
	for _, node := range nodes {
		answers[node.Node().Name] += ""
	}
	return answers
}
