package main

import (
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"
)

func TestX(t *testing.T) {
	promqltest.RunTest(t, "", promqltest.NewTestEngine(t, false, 0, 1000))
}
