// Differences that are meant: where our engine says more, or says it better. Everything else is a finding.
// Each is told to users in docs/gitops.md, "Where it differs from Argo CD".

const added = (peer, ours) => peer === undefined && ours !== undefined;
const fields = "(health\\.(status|message)|requiresPruning|syncWave)";

export const explained = [
  { path: /^operationState\.syncResult\.resources\[.*\]\.uid$/, when: added, why: "results remember which object they are about, so that a hook somebody replaced is not taken for the one that ran" },
  { path: /slipway\.io\/hook-operation$/, when: added, why: "a hook says for which operation it runs, so that it runs once for each" },
  { path: /^operationState\.syncResult\.resources\[.*Sync(Fail)?\]\.status$/, when: (peer, ours) => added(peer, ours) && ours === "Synced", why: "hooks have a status too" },
  { path: new RegExp(`^resources\\[batch/Job/.*\\]\\.${fields}$`), why: "a hook that is still there is told with its health and wave, and is not called something to prune" },
  { path: /^health\.message$/, when: added, why: "an Application says which resources make it unhealthy" },
  { path: /^health\.status$/, when: (peer, ours) => peer === "Missing" && ours === "Healthy", why: "what is missing makes an Application OutOfSync; Missing is one of which nothing is there" },
  { path: /^health\.status$/, scenario: /^unknown-kind$/, why: "an Application of which nothing is there is Missing, whatever the kinds" },
  { path: /^summary\.isAppOfApps$/, when: added, why: "a field of newer versions" },
  { path: /^summary\.images/, scenario: /^drift/, when: added, why: "the images of pods that are just being started are known already" },
  { path: /^conditions\[(ComparisonError|SyncError)\]\.message$/, why: "names the file, the line or the object, and what to do" },
  { path: /^operationState\.message$/, scenario: /^(hook-fails|refused|no-namespace|unknown-kind|by-hand)$/, why: "names the object and the reason; nothing is applied when the dry run already fails" },
  { path: /^operationState\.syncResult\.resources\[.*\]\.(message|hookPhase)$/, scenario: /^(refused|no-namespace|unknown-kind)$/, why: "says that it was the dry run that failed, and what to do" },
  { path: /^sync\.revision$/, scenario: /^(broken|missing-revision|missing-path)$/, when: (peer, ours) => ours === undefined && !/^[0-9a-f]{40}$/.test(peer), why: "a name is not a revision: where none was found, none is claimed" },
  { path: /^sync\.comparedTo\./, scenario: /^missing-project$/, when: added, why: "what was looked at is told even if it could not be compared" },
  { path: /^operationState\.syncResult\.resources\[.*\]\.wave$/, when: (peer, ours) => added(peer, ours) && String(ours) === "0", why: "what was pruned remembers its wave, so that an engine that was killed goes on in order" },
  { path: /^operationState\.syncResult\.resources\[\/Service\//, scenario: /^by-hand$/, when: (peer, ours) => peer !== undefined && ours === undefined, why: "a dry run lists what it would change, not what is as desired" },
  { path: /^operationState\.syncResult\.resources\[\/Namespace\//, scenario: /^hook-fails$/, why: "the result is the last try's; the first one made the namespace" },
  { path: /^(jobs\/|resources\[batch\/Job|order of creation)/, scenario: /^hook-fails$/, why: "a retry runs the hooks anew, and their delete policies hold for each try" },
];

/** Why a difference is meant, if it is. */
export const whyOf = (scenario, { path, peer, ours }) =>
  // A child's facts have its name before them.
  explained.find((one) => one.path.test(path.replace(/^[a-z-]+: /, "")) && (!one.scenario || one.scenario.test(scenario)) && (!one.when || one.when(peer, ours)))?.why;
