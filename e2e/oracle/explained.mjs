// Differences that are meant: where our engine says more, or says it better. Everything else is a finding.
// Each is told to users in docs/gitops.md, "Where it differs from Argo CD".

export const explained = [];

/** Why a difference is meant, if it is. */
export const whyOf = (scenario, { path, peer, ours }) =>
  explained.find((one) => one.path.test(path) && (!one.scenario || one.scenario.test(scenario)) && (!one.when || one.when(peer, ours)))?.why;
