# The image, for those who have Docker; `make image` makes it without. For both architectures at once:
#   docker buildx build --platform linux/amd64,linux/arm64 --tag <registry>/node-resource-advertiser:<version> --push .

# It compiles natively for either architecture: emulated, that would take an hour.
FROM --platform=$BUILDPLATFORM rust:1.95.0-bookworm AS build
ARG TARGETARCH
RUN if [ "$TARGETARCH" != "$(dpkg --print-architecture)" ]; then \
        apt-get update && apt-get install --yes "crossbuild-essential-$TARGETARCH"; \
    fi
RUN case "$TARGETARCH" in \
        amd64) echo x86_64 ;; \
        arm64) echo aarch64 ;; \
        *) echo "there is no image for $TARGETARCH, but for amd64 and arm64" >&2; exit 1 ;; \
    esac > /machine \
    && rustup target add "$(cat /machine)-unknown-linux-gnu"
# Without it the program would have root's group in a pod that names no user.
RUN printf 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n' > /passwd
WORKDIR /source
COPY . .
# Static, since there is nothing else in the image; see hack/image.sh. The machine's paths stay out of it.
RUN machine=$(cat /machine) && target=$machine-unknown-linux-gnu \
    && cargo fetch --locked \
    && RUSTFLAGS="-C target-feature=+crt-static\
        $(printf -- '--remap-path-prefix=%s=/registry ' "$CARGO_HOME"/registry/src/*)" \
        cargo build --release --locked --target "$target" --bin node-resource-advertiser \
        --config "target.$target.linker='$machine-linux-gnu-gcc'" \
    && cp "target/$target/release/node-resource-advertiser" /

FROM scratch
LABEL org.opencontainers.image.title="node-resource-advertiser" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/noderesource/node-resource-advertiser"
COPY --from=build /passwd /etc/
COPY --from=build /node-resource-advertiser /
# By number: Kubernetes' runAsNonRoot cannot check a name.
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/node-resource-advertiser"]
CMD ["run"]
