# The image, built with Docker by the commands of a release; `make image` does the same without Docker. Its C library is
# Debian's, and not Ubuntu's as in a released image. For both architectures at once:
#   docker buildx build --platform linux/amd64,linux/arm64 --tag <registry>/node-resource-advertiser:<version> --push .

# Cross-compiles natively: emulation would take an hour.
FROM --platform=$BUILDPLATFORM rust:1.95.0-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build
ARG TARGETARCH
# Without this entry the program would have root's group in a pod that sets no user.
RUN printf 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' > /passwd
WORKDIR /source
COPY Makefile Cargo.toml ./
COPY hack hack
RUN make cargo-about cargo-auditable
COPY . .
RUN hack/licenses.sh /licenses
# There is no commit here that would have a time.
RUN case "$TARGETARCH" in \
        amd64) machine=x86_64 ;; \
        arm64) machine=aarch64 ;; \
        *) echo "unsupported architecture $TARGETARCH: use amd64 or arm64" >&2; exit 1 ;; \
    esac \
    && program=$(SOURCE_DATE_EPOCH=0 hack/program.sh "$machine-unknown-linux-gnu") \
    && cp "$program" /

FROM scratch
LABEL org.opencontainers.image.title="node-resource-advertiser" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/noderesource/node-resource-advertiser"
COPY --from=build /passwd /etc/
COPY --from=build /licenses /licenses
COPY --from=build /node-resource-advertiser /
# By number: runAsNonRoot in Kubernetes cannot check a name.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/node-resource-advertiser"]
CMD ["run"]
