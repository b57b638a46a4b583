module slipway.io/e2e/go-sdk

go 1.22

require github.com/codefresh-io/go-sdk v1.4.14
