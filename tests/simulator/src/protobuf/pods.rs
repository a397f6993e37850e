//! The fields of pods in protobuf, as far as pods here have them.

use super::Type::{
    Flag, Message, Messages, Number, OptionalFlag, OptionalMessage, OptionalText, OptionalTime, Pointer, QuantityMap,
    Text, TextMap, Texts, Time,
};
use super::{Field, LIST_META, OBJECT_META};

pub(super) const POD: &[Field] =
    &[(1, "metadata", Message(OBJECT_META)), (2, "spec", Message(SPEC)), (3, "status", Message(STATUS))];

pub(super) const POD_LIST: &[Field] = &[(1, "metadata", Message(LIST_META)), (2, "items", Messages(POD))];

const SPEC: &[Field] = &[
    (2, "containers", Messages(CONTAINER)),
    (3, "restartPolicy", Text),
    (4, "terminationGracePeriodSeconds", Pointer),
    (5, "activeDeadlineSeconds", Pointer),
    (6, "dnsPolicy", Text),
    (7, "nodeSelector", TextMap),
    (8, "serviceAccountName", Text),
    (9, "serviceAccount", Text),
    (10, "nodeName", Text),
    (11, "hostNetwork", Flag),
    (12, "hostPID", Flag),
    (13, "hostIPC", Flag),
    (14, "securityContext", OptionalMessage(&[])),
    (16, "hostname", Text),
    (17, "subdomain", Text),
    (19, "schedulerName", Text),
    (20, "initContainers", Messages(CONTAINER)),
    (21, "automountServiceAccountToken", OptionalFlag),
    (22, "tolerations", Messages(TOLERATION)),
    (24, "priorityClassName", Text),
    (25, "priority", Pointer),
    (30, "enableServiceLinks", OptionalFlag),
    (31, "preemptionPolicy", OptionalText),
    (32, "overhead", QuantityMap),
];

const TOLERATION: &[Field] = &[
    (1, "key", Text),
    (2, "operator", Text),
    (3, "value", Text),
    (4, "effect", Text),
    (5, "tolerationSeconds", Pointer),
];

const CONTAINER: &[Field] = &[
    (1, "name", Text),
    (2, "image", Text),
    (3, "command", Texts),
    (4, "args", Texts),
    (5, "workingDir", Text),
    (8, "resources", Message(&[(1, "limits", QuantityMap), (2, "requests", QuantityMap)])),
    (13, "terminationMessagePath", Text),
    (14, "imagePullPolicy", Text),
    (16, "stdin", Flag),
    (17, "stdinOnce", Flag),
    (18, "tty", Flag),
    (20, "terminationMessagePolicy", Text),
    (24, "restartPolicy", OptionalText),
];

const STATUS: &[Field] = &[
    (1, "phase", Text),
    (2, "conditions", Messages(CONDITION)),
    (3, "message", Text),
    (4, "reason", Text),
    (5, "hostIP", Text),
    (6, "podIP", Text),
    (7, "startTime", OptionalTime),
    (8, "containerStatuses", Messages(CONTAINER_STATUS)),
    (9, "qosClass", Text),
    (10, "initContainerStatuses", Messages(CONTAINER_STATUS)),
    (11, "nominatedNodeName", Text),
    (13, "ephemeralContainerStatuses", Messages(CONTAINER_STATUS)),
    (14, "resize", Text),
    (17, "observedGeneration", Number),
    (18, "extendedResourceClaimStatus", OptionalMessage(CLAIM)),
];

const CONDITION: &[Field] = &[
    (1, "type", Text),
    (2, "status", Text),
    (3, "lastProbeTime", Time),
    (4, "lastTransitionTime", Time),
    (5, "reason", Text),
    (6, "message", Text),
    (7, "observedGeneration", Number),
];

const CONTAINER_STATUS: &[Field] = &[
    (1, "name", Text),
    (2, "state", Message(CONTAINER_STATE)),
    (3, "lastState", Message(CONTAINER_STATE)),
    (4, "ready", Flag),
    (5, "restartCount", Number),
    (6, "image", Text),
    (7, "imageID", Text),
    (8, "containerID", Text),
    (9, "started", OptionalFlag),
];

const CONTAINER_STATE: &[Field] = &[
    (1, "waiting", OptionalMessage(&[(1, "reason", Text), (2, "message", Text)])),
    (2, "running", OptionalMessage(&[(1, "startedAt", Time)])),
    (
        3,
        "terminated",
        OptionalMessage(&[
            (1, "exitCode", Number),
            (2, "signal", Number),
            (3, "reason", Text),
            (4, "message", Text),
            (5, "startedAt", Time),
            (6, "finishedAt", Time),
            (7, "containerID", Text),
        ]),
    ),
];

const CLAIM: &[Field] = &[
    (
        1,
        "requestMappings",
        Messages(&[(1, "containerName", Text), (2, "resourceName", Text), (3, "requestName", Text)]),
    ),
    (2, "resourceClaimName", Text),
];
