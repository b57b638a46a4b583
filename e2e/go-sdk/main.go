// The published Go SDK as a client of this platform: what its typed calls read of us, as one JSON object.
package main

import (
	"context"
	"encoding/json"
	"os"

	"github.com/codefresh-io/go-sdk/pkg/codefresh"
)

func must[T any](value T, err error) T {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	return value
}

func main() {
	ctx := context.Background()
	graphql := codefresh.New(&codefresh.ClientOptions{Host: os.Getenv("SLIPWAY_URL"), Token: os.Getenv("SLIPWAY_API_KEY")}).GraphQL()
	runtime := os.Args[1]
	said := map[string]any{
		"me":         must(graphql.User().GetCurrent(ctx)),
		"runtimes":   must(graphql.Runtime().List(ctx)),
		"runtime":    must(graphql.Runtime().Get(ctx, runtime)),
		"components": must(graphql.Component().List(ctx, runtime)),
		"clusters":   must(graphql.Cluster().List(ctx, runtime)),
		"gitSources": must(graphql.GitSource().List(ctx, runtime)),
		"limits":     must(graphql.Payments().GetLimitsStatus(ctx)),
	}
	_, missing := graphql.Runtime().Get(ctx, "nothing")
	said["missing"] = missing.Error()
	must(0, json.NewEncoder(os.Stdout).Encode(said))
}
