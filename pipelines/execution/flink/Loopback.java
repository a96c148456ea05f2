import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;

import java.lang.instrument.Instrumentation;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;

/** Has gRPC servers of a JVM listen on loopback: Beam's bind to every interface, and no option of theirs says otherwise. */
public final class Loopback {
  private Loopback() {}

  public static void premain(String arguments, Instrumentation instrumentation) {
    new AgentBuilder.Default()
        .type(ElementMatchers.nameEndsWith("grpc.netty.NettyServerBuilder"))
        .transform(
            (builder, type, loader, module, domain) ->
                builder.visit(
                    Advice.to(Listen.class).on(named("forAddress").and(takesArgument(0, SocketAddress.class)))))
        .installOn(instrumentation);
  }

  /** What is done first in each method that says where a server listens. */
  public static final class Listen {
    private Listen() {}

    @Advice.OnMethodEnter
    public static void enter(@Advice.Argument(value = 0, readOnly = false) SocketAddress address) {
      if (address instanceof InetSocketAddress && ((InetSocketAddress) address).getAddress().isAnyLocalAddress()) {
        address = new InetSocketAddress(InetAddress.getLoopbackAddress(), ((InetSocketAddress) address).getPort());
      }
    }
  }
}
