// CoreDNS with only the plugins that a test cluster uses: the whole set brings the clients of every cloud.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// The order is the order in which a question passes through them.
	dnsserver.Directives = []string{"bind", "ready", "errors", "hosts", "kubernetes"}
	coremain.Run()
}
