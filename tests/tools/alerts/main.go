package main

import (
	"fmt"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

func main() {
	var x yaml.Node
	fmt.Println(parser.NewParser, x)
}
