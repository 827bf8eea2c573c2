(* rs.eq63: Zhu and Blaschko, Improving Differentially Private SGD via Randomly Sparsified Gradients (RS), the version with Lemma 3.3: Appendix B.3, eq. 63 and the text after eq. 76.
   "As the network converges, P(|xi_t| < 3C/4) >= sqrt(1 - r) will be definitely satisfied". *)
From kernel Require Import definitions lemmas.

(* the examples' gradients are a finite law p; at convergence their mean is 0, so that the deviations are the gradients themselves *)
Definition printed : Prop := forall d k C (p : law vec), (0 < k < d)%nat -> 0 < C -> lawful p -> in_space d p ->
  mean_vector d p (fun v => v) = zero d -> sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).
(* a small second moment is enough *)
Definition correction : Prop := forall d k C (p : law vec), (0 < k < d)%nat -> 0 < C -> lawful p ->
  E p square <= 9 * C ^ 2 / 16 * (1 - sqrt (share d k)) -> sqrt (share d k) <= chance p (3 * C / 4) (fun v => v).
